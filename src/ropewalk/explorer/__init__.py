"""The page that turns: a State in the URL, plain data for it, and the page that shows both."""
