"""Test material that is made, not downloaded: tiny models and their checks."""
