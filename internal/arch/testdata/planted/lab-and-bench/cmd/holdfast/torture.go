package main

import _ "github.com/holdfast-go/holdfast/lab/scenario" // want
