package main

import _ "github.com/holdfast-go/holdfast/lab/programme" // want
