# The manual pages, generated from the public headers and the tools.
