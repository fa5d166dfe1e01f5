ÓSPCèhello
XŽÎMmore