ÓSPC5Ô™üÜGDFJ‚ÈPY,	
 !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXY)ú=C