"""The playground in `static/`, and the HTTP service behind it. The way of a request:

- `server`, `connections`: it arrives on one of a bounded number of connections, within a deadline
- `guard`: its Host, the size of its body and its client's rate are checked; it waits for its client's turn
- `toolkit`, `tutoring`, `classroom`, `solving`, `operations`: its route, beside the models of its body and response
- `queue`: a search waits for the solver, fair to all clients
- `errors`: whatever goes wrong becomes a response of one form

`messages` has what several routes share. `app` puts all together.
"""
