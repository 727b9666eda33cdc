"""What we learn from it: datasets, training, metrics, packages and exports."""
