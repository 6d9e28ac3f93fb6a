"""How to choose gamma, rank and components: curves of what each choice gives, and a picture of them."""
