//go:build !linux

package main

// place pins nothing here.
func place() (cores, error) { return cores{}, nil }

func (c cores) pinServer(int) error { return nil }
