"""Leading eigenpairs of matrices that nobody needs to store. Knows no kernel and no party."""
