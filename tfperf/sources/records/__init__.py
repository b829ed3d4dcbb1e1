"""Records of files, by their numbers, for who reads many of them in any order."""
