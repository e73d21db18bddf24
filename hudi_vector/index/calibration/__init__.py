"""How much of an index has to be looked at for a recall, measured on rows that were held out."""
