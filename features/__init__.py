"""What was known, and when: events, relevance, queries, candidates and point-in-time features. Polars only."""
