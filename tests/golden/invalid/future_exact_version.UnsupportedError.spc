ÓSPC5Ô™üÜGDFJ‚ÈPYO	
 !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXY^?)0