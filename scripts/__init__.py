"""Tools of the checkout: run as `python -m scripts.<name>` from its root."""
