// Browsers start no worker from a file. There the search runs in a hidden frame instead, with the part of a
// worker's interface that it uses; the tool that builds the site would otherwise load such a script from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class {
    constructor(address) {
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => setTimeout(() => this.onmessage?.({ data }));
      const script = this.inside.document.createElement("script");
      script.src = address;
      script.onload = () => {
        this.ready = true;
        this.waiting.forEach((data) => this.postMessage(data));
      };
      script.onerror = (error) => this.onerror?.(error);
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      if (!this.ready) this.waiting.push(data);
      else setTimeout(() => this.inside.onmessage?.({ data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
