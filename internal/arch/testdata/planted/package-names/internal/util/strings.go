package strings // want
