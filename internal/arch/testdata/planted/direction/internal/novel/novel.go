package novel // want
