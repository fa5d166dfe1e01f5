ÓSPC5Ô™üÜGDFJ‚ÈY]	
 !"#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYä9Vê