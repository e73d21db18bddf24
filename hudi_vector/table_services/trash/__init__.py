"""Where swept files wait before they are gone for good."""
