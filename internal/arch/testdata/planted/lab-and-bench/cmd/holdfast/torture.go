package main

import (
	_ "github.com/holdfast-go/holdfast/lab/programme"
	_ "github.com/holdfast-go/holdfast/lab/scenario" // want
	_ "github.com/holdfast-go/holdfast/lab/subject"
)
