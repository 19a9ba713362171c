"""Long work of the api, step by step under a lease."""
