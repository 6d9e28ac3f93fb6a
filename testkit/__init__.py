"""What tests and benchmarks share: data, matrices, the protocol in a few lines, the program in a folder."""
