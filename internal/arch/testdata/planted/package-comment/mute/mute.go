package mute // want
