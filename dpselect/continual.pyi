from dpselect.app.continual import *  # noqa: F403
