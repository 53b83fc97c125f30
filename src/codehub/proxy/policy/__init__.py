"""Who may go where: a request's head goes in, a Target or an Answer for the engine comes out."""
