"""Who may go where: a request's head goes in, a Target or an Answer for the engine comes out.

gate         the whole of it: find the workspace, decide (core/visit.py), let in or answer
route_cache  who and where, from memory; entrances is what it knows of one workspace
entering     into an origin of its own; port_ways: into ports
refusals     which answer; pages and answers: what it looks like; page_actions: the buttons on it
tab          codehub's script in the page of an IDE (tab.js)
activity     what of the traffic is use
"""
