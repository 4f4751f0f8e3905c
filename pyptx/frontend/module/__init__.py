"""`pyptx.Module`: a whole PTX file written in Python, and the functions its bodies use."""
