"""Networks that recommend: films, articles, advertisements."""
