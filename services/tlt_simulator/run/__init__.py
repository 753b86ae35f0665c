"""Discrete events in virtual time: fleet, gateway, coordinator and trainers, with the deciders of the product."""
