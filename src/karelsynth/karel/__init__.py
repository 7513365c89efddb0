"""Karel itself: the language, its worlds, the interpreter and the batch machine. No torch below this line."""
