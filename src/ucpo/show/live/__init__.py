"""A page in the browser on which the budget is a slider.

`sources` are the policies named on the command line, `lanes` play them, a `stage` keeps lanes in
step and obeys `messages`, `server` shows it to whoever has the address, `page` is what they see.
"""
