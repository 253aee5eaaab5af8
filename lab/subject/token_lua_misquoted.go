package subject

// TokenLuaMisquoted is TokenLua with quotes around KEYS[1] in the release.
//
// Hole: the script deletes the key named KEYS[1]. No lock is ever released; each stays
// until its TTL.
func TokenLuaMisquoted() Subject {
	const misquoted = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', 'KEYS[1]') return 1 end
return 0`
	return Subject{ID: "token-lua-misquoted", Title: "token-lua that deletes 'KEYS[1]'", Nodes: 1, Traits: Traits{Renews: true, Points: true},
		Open: func(s Setup) (Client, error) { return &polling{s, tokenLua{Setup: s, deletes: misquoted}.try}, nil }}
}
