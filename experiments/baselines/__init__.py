"""What the experiments compare with: ordinary code, one method a file."""
