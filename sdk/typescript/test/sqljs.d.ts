declare module "sql.js" {
  interface Database {
    run(sql: string): void;
    prepare(sql: string): Statement;
  }
  interface Statement {
    bind(parameters: readonly (string | number)[]): void;
    step(): boolean;
    getAsObject(): Record<string, unknown>;
    free(): void;
  }
  export default function open(): Promise<{ Database: new () => Database }>;
}
