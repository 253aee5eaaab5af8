package main

import _ "github.com/alecthomas/kong"
