/** Requests to the coordinator. The token is kept for this tab alone, and sent in a header, never in an address. */

const KEPT = "tlt-token";

/** The coordinator refused a request or did not answer it. */
export class Failure extends Error {
  constructor(status, message, field) {
    super(message);
    this.status = status;
    this.field = field;
  }

  /** Whether another token would help. */
  get wantsToken() {
    return this.status === 401 || this.status === 403;
  }
}

export class Api {
  #askForToken;
  #asked = null;

  /** `askForToken(reason)` returns a promise of a token; the reason is "" if none was sent. */
  constructor(askForToken) {
    this.#askForToken = askForToken;
  }

  /** Returns the JSON of an endpoint; asks for a token as often as one is refused. */
  async get(name, query = {}, signal = undefined) {
    const response = await this.open(name, { query, signal });
    return response.json();
  }

  /** Returns the response of an endpoint, once it is a good one. Throws Failure, and AbortError if the signal is raised. */
  async open(name, { query = {}, headers = {}, signal = undefined } = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null);
    const address = `api/v1/${name}${given.length ? `?${new URLSearchParams(given)}` : ""}`;
    for (;;) {
      const token = sessionStorage.getItem(KEPT);
      const bearer = token ? { Authorization: `Bearer ${token}` } : {};
      const response = await fetched(address, { headers: { ...headers, ...bearer }, signal });
      if (response.ok) return response;
      const failure = await failureOf(response);
      if (!failure.wantsToken) throw failure;
      await this.#another(token, failure);
    }
  }

  /** Forgets the token. */
  signOut() {
    sessionStorage.removeItem(KEPT);
  }

  /** Asks for another token, once for all requests that were refused meanwhile. */
  async #another(refused, failure) {
    if (sessionStorage.getItem(KEPT) !== refused) return;
    this.#asked ??= this.#askForToken(refused ? failure.message : "").then((token) => {
      sessionStorage.setItem(KEPT, token);
      this.#asked = null;
    });
    await this.#asked;
  }
}

async function fetched(address, options) {
  try {
    return await fetch(address, { ...options, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "The coordinator does not answer.");
  }
}

async function failureOf(response) {
  const found = await response.json().catch(() => ({}));
  const message = found?.error?.message ?? `The coordinator answered with ${response.status}.`;
  return new Failure(response.status, message, found?.error?.param);
}
