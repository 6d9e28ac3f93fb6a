"""Small programs that end in a picture; the gallery in the documentation shows them."""
