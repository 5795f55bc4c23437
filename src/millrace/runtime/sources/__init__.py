"""Sources that Millrace reads itself."""
