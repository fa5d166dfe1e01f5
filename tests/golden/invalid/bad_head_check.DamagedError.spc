ÓSPChello
XŽÎM