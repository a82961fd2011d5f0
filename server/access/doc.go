// Package access tells who sends a request and what they may do. It knows neither the store nor the contract: package server
// asks Gate.Who for the principal of a request, and the principal for each name that the request is about.
//
// # The auth file
//
// It is YAML or JSON, at most 4 MiB. A field that is not known is refused, as are aliases; a text that begins with a star needs
// quotes.
//
//	principals:
//	  - name: ci                      # 1 to MaxName bytes, printable, without a colon; each once
//	    tokens:                       # as "latchkey token new ci" prints them; several, so that one can follow another
//	      - sha256:5b1f…
//	    certificates:                 # CN=, DNS:, URI: or EMAIL: and one name, of a client's certificate
//	      - DNS:ci.example
//	    grants:
//	      - prefix: team-a            # see Prefix
//	        rights: [lock, read]      # of lock, read and admin; see Right
//	jwt:                              # JSON Web Tokens of one issuer, as those of OpenID Connect
//	  issuer: https://issuer.example  # the claim iss, byte for byte
//	  audience: latchkey              # one, or a list: the claim aud must have one of them, byte for byte
//	  jwks_url: https://issuer.example/keys  # or jwks_file: keys.json, beside this file
//	  algorithms: [RS256, ES256]      # the default; also RS, PS and ES with 256, 384 and 512, and EdDSA
//	  principal_claim: sub            # the default; the principal is "jwt:" and its value
//	  grants:
//	    - claim: groups               # a text or a list of texts; claims of another kind give nothing
//	      value: ops                  # without it, any value
//	      prefix: "*"
//	      rights: [admin]
//	    - claim: groups
//	      prefix: team-{value}        # only for values of letters, digits, dots, _ and -, and not for . and ..
//	      rights: [lock, read]
//
// There may be 10 000 principals, each with 100 tokens, 100 certificates and 1000 grants, and 1000 grants of jwt. A token or a
// name of a certificate belongs to one principal. The file holds no secret: of tokens it has the hashes.
//
// # Credentials
//
// Authorization: Bearer, in any case of letters, carries a token or a JWT, 8 KiB at the most with the scheme. If there is such a
// header, it alone decides; if there is none, the client's certificate does. The server has verified its chain; here its names
// are compared with those of the file (DNS names in lower case, all others byte for byte, no patterns), and one with names of
// two principals is refused.
//
// A JWT must have exp and is good until then, to the second; nbf is forgiven ClockLeeway. It must be signed by a public key of
// the issuer, by an algorithm that was chosen; its own ideas of where keys are (jwk, jku, x5u) are not followed. One with a
// claim twice, or with iss, sub, aud, exp, nbf, iat or jti in another case of letters, is refused: others might read another
// in it.
//
// Whatever is wrong with credentials, the answer is ErrBadCredentials, and no more is to be told. The cause is in the log at
// debug, in at most 128 bytes and without anything that was sent.
//
// # Keys of an issuer
//
// Those of a URL are fetched at the start of Run, every 10 minutes, and when a JWT is signed by none that is known; never more
// often than every 10 s. So a key that the issuer has withdrawn is taken for 10 minutes, and a new one may be refused for 10 s:
// issuers show keys before they use them. An answer may take 5 s and have 256 KiB; redirects are not followed; a proxy that the
// environment names (HTTPS_PROXY) is used, and the system's certificates are believed. When the issuer cannot be asked, known
// keys stay good, and a JWT by an unknown one is ErrCannotTell.
//
// # Changes
//
// Run looks at the auth file and the key file every 5 s, and Reload does at once. A file that is faulty changes nothing: its
// earlier content stays in force, the faults are logged together, latchkey_auth_reloads_total{outcome="refused"} counts it and
// latchkey_auth_stale is 1 until the file is mended. The other file counts all the same: new keys are taken beside a faulty auth
// file, with the settings in force, and a new auth file beside a faulty key file, unless it names other keys or another issuer.
// Requests under way keep the principal that they began with, so what was taken away from it is felt by the next request and not
// by a wait or a stream that goes on.
//
// To change a file, write another beside it and rename that to its name, as mv does in one folder: the change is then there all
// at once. A file that is written in place may be read half-written, and a beginning of it can be a good file too, that lacks
// the principals and grants which are not yet written.
package access
