"""What can be asked, each thing once: a spec for each question, whose fields are options, keys of a
file and keywords.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
