ÓSPCèhello
XŽÎ²