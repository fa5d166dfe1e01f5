ÓSP¼èhello
XŽÎM