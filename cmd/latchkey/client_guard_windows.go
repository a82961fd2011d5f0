package main

import "errors"

// guardCommand is of systems with process groups.
type guardCommand struct{}

func (*guardCommand) check(*faults) {}

func (*guardCommand) run(surroundings) error { return errors.New("there is no guard on Windows") }
