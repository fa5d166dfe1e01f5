ÓSPCèhšllo
XŽÎM