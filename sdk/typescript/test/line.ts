import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { after } from "node:test";

/** A line between a client and a replica, which can be cut, hang, or lose answers. */
export class Line {
  readonly #server: Server;
  readonly #ends = new Set<Socket>();
  #way: "open" | "cut" | "silent" | "deaf" = "open";

  private constructor(target: string) {
    const { hostname, port } = new URL(target);
    this.#server = createServer((near) => this.#carry(near, connect(Number(port), hostname)));
  }

  static async to(target: string): Promise<Line> {
    const line = new Line(target);
    await new Promise<void>((resolve) => line.#server.listen(0, "127.0.0.1", resolve));
    after(() => {
      line.#reset();
      line.#server.close();
    });
    return line;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Closes what is connected and whoever connects. */
  cut(): void {
    this.#way = "cut";
    this.#reset();
  }

  /** Lets nothing through any more, in either direction, and tells nobody. */
  hang(): void {
    this.#way = "silent";
  }

  /** Lets requests through and swallows the answers. */
  loseAnswers(): void {
    this.#way = "deaf";
  }

  heal(): void {
    this.#way = "open";
    this.#reset();
  }

  #carry(near: Socket, far: Socket): void {
    for (const [from, to] of [[near, far], [far, near]] as const) {
      this.#ends.add(from);
      from.on("data", (bytes) => {
        if (this.#way === "open" || (this.#way === "deaf" && from === near)) {
          to.write(bytes);
        }
      });
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#ends.delete(from);
        to.destroy();
      });
    }
    if (this.#way === "cut") {
      near.destroy();
    }
  }

  #reset(): void {
    for (const end of this.#ends) {
      end.destroy();
    }
  }
}
