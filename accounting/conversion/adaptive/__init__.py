"""Optimal adaptive composition by a dynamic programme over the steps, with an upper and a lower bound."""
