//go:build !linux

package main

// pinSelf pins nothing here.
func pinSelf() (cores, error) { return cores{}, nil }

func (c cores) spread() (back func(), err error) { return func() {}, nil }

func (c cores) asServer() (back func(), err error) { return func() {}, nil }

func (c cores) checkServer(int) error { return nil }

func (c cores) pinServer(int) error { return nil }
