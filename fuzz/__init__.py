"""Bytes from strangers, at random, into everything that reads them; `make fuzz`."""
