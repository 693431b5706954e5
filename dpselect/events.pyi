from dpselect.app.events import *  # noqa: F403
