"""`plan`, a public name of the framework that the application stands behind."""

from dpselect.app.planning import plan as plan
